/* Proves that two groups of processes that do not know each other meet through a published name.
 *     service           rank 0 opens a port and publishes it, rank 1 looks it up and connects
 * Both work through MPI_COMM_SELF, as programs that were started apart would. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int rank, number = 0, error;
    MPI_Comm other;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        if (MPI_Publish_name("desk", MPI_INFO_NULL, port) != MPI_SUCCESS)
            return 65;
        if (MPI_Publish_name("desk", MPI_INFO_NULL, port) == MPI_SUCCESS)
            return 66;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        MPI_Recv(&number, 1, MPI_INT, 0, 7, other, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&other);
        if (MPI_Unpublish_name("desk", MPI_INFO_NULL, port) != MPI_SUCCESS)
            return 67;
        MPI_Close_port(port);
        MPI_Barrier(MPI_COMM_WORLD);
        printf("the directory received %d\n", number);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) {
            if (MPI_Lookup_name("desk", MPI_INFO_NULL, port) != MPI_SUCCESS)
                return 68;
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
            number = 4711;
            MPI_Send(&number, 1, MPI_INT, 0, 7, other);
            MPI_Comm_disconnect(&other);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        error = MPI_Lookup_name("desk", MPI_INFO_NULL, port);
        printf("rank %d: after that there is %s desk\n", rank, error == MPI_SUCCESS ? "a" : "no");
    }
    MPI_Finalize();
    return 0;
}
