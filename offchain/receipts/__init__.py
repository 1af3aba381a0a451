"""Receipts of answers that nobody opened a job for: signed, numbered, kept, checked, challenged.

`packed` is their form outside a process, `book` a provider's record of those that it has signed.
What they mean is in docs/explanation/receipts.md, what is hashed in `contracts/model/receipts.py`.
"""
