"""What cycles need of the cycles before: bronze by plans, operator state, snapshots."""
