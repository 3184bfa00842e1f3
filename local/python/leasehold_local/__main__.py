"""`python -m leasehold_local`: the command `leasehold-local`."""

from leasehold_local import main

main()
