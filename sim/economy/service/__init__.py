"""Jobs by receipt: standing bonds, numbered receipts, vouchers, samples, challenges and faults."""
