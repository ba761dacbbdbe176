"""Speed, as ratios measured side by side in one run. ``python -m benchmarks`` (or ``make bench``) writes `results/`."""
