/* Proves that a rank killed by a signal does not leave the others waiting:
 *     killed RANK SIGNAL
 * RANK raises SIGNAL, given as a number, right after MPI_Init; the others wait for it in a barrier.
 * A rank that gets past its part says so and exits with 65: no test accepts that. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, number;

    if (argc != 3) {
        fprintf(stderr, "usage: killed RANK SIGNAL\n");
        return 64;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == atoi(argv[1])) {
        /* The library may have taken over this signal; the default action is what is to be seen. */
        number = atoi(argv[2]);
        signal(number, SIG_DFL);
        raise(number);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    printf("rank %d outlived the signal\n", rank);
    return 65;
}
