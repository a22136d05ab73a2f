/* Proves that two programs under launchers of their own meet through a published name.
 *     apart serve      opens a port, publishes it and prints a line, and receives a number from the other
 *     apart visit      looks the name up and connects
 * Both work through MPI_COMM_SELF in rank 0. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int rank, number = 4711;
    MPI_Comm other;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && argc > 1 && strcmp(argv[1], "serve") == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name("harbour", MPI_INFO_NULL, port);
        printf("published\n");
        fflush(stdout);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        MPI_Recv(&number, 1, MPI_INT, 0, 7, other, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&other);
        MPI_Unpublish_name("harbour", MPI_INFO_NULL, port);
        MPI_Close_port(port);
        printf("received %d\n", number);
    } else if (rank == 0) {
        MPI_Lookup_name("harbour", MPI_INFO_NULL, port);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        MPI_Send(&number, 1, MPI_INT, 0, 7, other);
        MPI_Comm_disconnect(&other);
    }
    MPI_Finalize();
    return 0;
}
