"""The engine of `logged`: stock binary64 operators, rounded once, with a log of what is doubtful.

`stock` computes in binary64, by whatever numpy and its libraries do, and marks elements that lie
near a boundary. `plans` looks at these again, one by one: from their terms (`terms`) comes a bound
of the error, and from the bound what is doubtful (`judgement`). A trainer logs that, an auditor
obeys the log as far as the band allows (`journals`). What the band does not cover is decided
exactly.
"""
