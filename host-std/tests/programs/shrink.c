/* Rank 1 dies after a barrier; the others find that out in the next one, and go on without it (ULFM). */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, kind, left;
    MPI_Comm rest;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        raise(SIGKILL);
    MPI_Error_class(MPI_Barrier(MPI_COMM_WORLD), &kind);
    MPIX_Comm_revoke(MPI_COMM_WORLD);
    MPIX_Comm_shrink(MPI_COMM_WORLD, &rest);
    MPI_Comm_size(rest, &left);
    printf("rank %d finds %s, %d are left\n", rank,
           kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_REVOKED ? "a failure" : "nothing", left);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
