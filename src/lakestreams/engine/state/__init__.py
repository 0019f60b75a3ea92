"""What a cycle needs from earlier cycles: bronze by plans, operator state, snapshots."""
