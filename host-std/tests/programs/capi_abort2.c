/* Rank 1 aborts the job; rank 0 waits for it in a fence. */
#include <pmi2.h>

int main(void) {
    int spawned, size, rank, appnum;
    if (PMI2_Init(&spawned, &size, &rank, &appnum) != PMI2_SUCCESS)
        return 2;
    if (rank == 1)
        PMI2_Abort(1, "out of paper");
    PMI2_KVS_Fence();
    return 3;
}
