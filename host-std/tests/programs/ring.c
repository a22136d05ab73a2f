/* Proves that the addresses published through the key-value space lead to the right peers: a token travels
 * once round the ring, each rank adds its number, and rank 0 checks the sum it gets back. A job of one rank
 * sends to itself. Prints "ring of N: token T" from rank 0; exits with 1 when the token is wrong. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, from, to, token = 0, wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    from = (rank + size - 1) % size;
    to = (rank + 1) % size;

    if (rank == 0) {
        /* Sending and receiving at once keeps a ring of one from waiting for itself. */
        MPI_Sendrecv(&rank, 1, MPI_INT, to, 0, &token, 1, MPI_INT, from, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        wrong = token != size * (size - 1) / 2;
        printf("ring of %d: token %d%s\n", size, token, wrong ? " is wrong" : "");
    } else {
        MPI_Recv(&token, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token += rank;
        MPI_Send(&token, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return wrong;
}
