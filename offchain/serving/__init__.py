"""Serving: answers of language models to many at once, each with a claim that anybody can check.

`programs` has a model's programs, and what of their states is hashed once. `engine` reads chunks of
prompts and decodes tokens of all `requests` in turn, `pool` holds their keys and values, `prefixes`
those of texts that may come again, and `choosing` picks tokens. `committing` makes the roots of an
answer (`answered`), and `checking` finds the first wrong token of one. `checkpoints` and `adapters`
are where models come from.

The endpoint is `endpoint`, and `server` bounds who may ask it; what it takes and refuses is in
`asked`, and what it says in `replies`, `speech` and `metrics`. `issuing` signs receipts of answers,
and `archive` keeps them.
"""
