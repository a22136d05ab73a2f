"""Posts a value, meets everybody, and reads what the next rank has posted, through Python's PMIx module."""
import sys
import warnings

warnings.simplefilter("ignore")  # The module sets its threads up in an old way.
import pmix


def check(status, what):
    if status != pmix.PMIX_SUCCESS:
        sys.exit(f"{what}: {status}")


client = pmix.PMIxClient()
status, own = client.init([])
check(status, "init")
everybody = {"nspace": own["nspace"], "rank": pmix.PMIX_RANK_WILDCARD}
status, size = client.get(everybody, pmix.PMIX_JOB_SIZE, [])
check(status, "job size")
rank, size = own["rank"], size["value"]
check(client.put(pmix.PMIX_GLOBAL, "card", {"value": 1000 + rank, "val_type": pmix.PMIX_UINT32}), "put")
check(client.commit(), "commit")
collect = {"key": pmix.PMIX_COLLECT_DATA, "value": True, "val_type": pmix.PMIX_BOOL, "flags": 0}
check(client.fence([everybody], [collect]), "fence")
status, found = client.get({"nspace": own["nspace"], "rank": (rank + 1) % size}, "card", [])
check(status, "get")
print(f"python {rank} of {size} found {found['value']}", flush=True)
check(client.fence([everybody], []), "last fence")
check(client.finalize([]), "finalize")
