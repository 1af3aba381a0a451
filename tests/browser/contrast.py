"""The contrast of a page's texts with what is behind them."""

from playwright.sync_api import Page

_CONTRAST = """
    all => all.map(it => {
        const read = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
        const light = (colour) => read(colour).map(part => part / 255)
            .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
            .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
        let ground = it;
        while (ground.parentElement && getComputedStyle(ground).backgroundColor.endsWith(", 0)"))
            ground = ground.parentElement;
        const pair = [light(getComputedStyle(it)[it instanceof SVGElement ? 'fill' : 'color']),
                      light(getComputedStyle(ground).backgroundColor)].sort((a, b) => b - a);
        return (pair[0] + 0.05) / (pair[1] + 0.05);
    })
"""
"""The contrast of texts with what is behind them, as WCAG defines it."""


def measure_contrasts(page: Page, selector: str) -> list[float]:
    """Return the contrast of each text that a selector finds."""
    found: list[float] = page.eval_on_selector_all(selector, _CONTRAST)
    return found
