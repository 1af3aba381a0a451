"""Serving: answers of language models to many at once, each with a claim that anybody can check.

`programs` has a model's programs, and what of their states is hashed once. `engine` reads chunks of
prompts and decodes tokens of all requests in turn, `pool` holds their keys and values, `prefixes`
those of texts that may come again, and `choosing` picks tokens. `answered` is what an answer
commits to, and `checking` finds the first wrong token of one.

The endpoint is `endpoint`; what it takes and refuses is in `asked`, and what it says in `replies`.
"""
