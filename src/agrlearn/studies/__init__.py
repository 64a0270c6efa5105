"""Many runs and one table: the demo, sweeps, and the experiments of the paper."""
