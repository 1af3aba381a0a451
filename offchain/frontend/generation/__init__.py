"""Text from language models: a token a step, with a cache, and all tokens checked in one pass.

`decoding` makes the program that yields one token a step; its state holds the cache, the tokens so
far and the position. `prefill` checks tokens that somebody claims by one pass over all of them.
`cache` says what a module does to be decoded so, `huggingface` does it for the transformers
library's causal models, and `choice` is how a token comes from logits.
"""
