"""The plots of the report, one in each file; `table.py` lists them."""
