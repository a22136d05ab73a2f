/* Proves that all ranks of two programs under launchers of their own work together.
 *     meet serve [TIMES]      opens a port, publishes it and prints a line, and is joined by the other so often
 *     meet visit              looks the name up and connects
 * Ranks of the same number exchange a number over the intercommunicator; then all ranks add theirs. Rank 0 of
 * each prints the number of the others, and the sum. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int rank, size, others, number, sum = 0, theirs = -1, times = 1;
    MPI_Comm between, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int serves = argc > 1 && strcmp(argv[1], "serve") == 0;
    if (serves && argc > 2) {
        times = atoi(argv[2]);
    }
    if (rank == 0 && serves) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name("market", MPI_INFO_NULL, port);
        printf("published\n");
        fflush(stdout);
    } else if (rank == 0) {
        MPI_Lookup_name("market", MPI_INFO_NULL, port);
    }
    for (int turn = 0; turn < times; turn++) {
        if (serves) {
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between);
        } else {
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between);
        }
        MPI_Comm_remote_size(between, &others);
        number = rank + (serves ? 100 : 1000);
        if (rank < others) {
            MPI_Sendrecv(&number, 1, MPI_INT, rank, 7, &theirs, 1, MPI_INT, rank, 7, between, MPI_STATUS_IGNORE);
        }
        MPI_Intercomm_merge(between, !serves, &all);
        MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, all);
        if (rank == 0) {
            printf("%d others, received %d, sum %d\n", others, theirs, sum);
            fflush(stdout);
        }
        MPI_Comm_free(&all);
        MPI_Comm_disconnect(&between);
    }
    if (rank == 0 && serves) {
        MPI_Unpublish_name("market", MPI_INFO_NULL, port);
        MPI_Close_port(port);
    }
    MPI_Finalize();
    return 0;
}
