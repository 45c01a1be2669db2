"""The admin API: REST in a process of its own, which asks the same rooms as the commands do and decides nothing."""
