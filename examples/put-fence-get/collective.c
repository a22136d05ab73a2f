/* Repeats two collective operations of MPI, each for a quarter of a second, and prints how long one takes, in
 * nanoseconds: that of MPI_Barrier, then that of MPI_Allreduce of one number. */
#include <mpi.h>
#include <stdio.h>

/* Operations between two looks at the clock, which are followed by a broadcast of what it shows. */
enum { BATCH = 10 };

static double mean(int is_barrier, int rank)
{
    long own = 1, sum = 0;
    int count = 0, goes_on = 1;
    double start = 0, took = 0;

    /* The first batch sets up connections and is not counted. */
    for (int batch = 0; goes_on; batch++) {
        if (batch == 1)
            start = MPI_Wtime();
        for (int i = 0; i < BATCH; i++) {
            if (is_barrier)
                MPI_Barrier(MPI_COMM_WORLD);
            else
                MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        }
        if (batch > 0) {
            count += BATCH;
            took = MPI_Wtime() - start;
        }
        goes_on = batch == 0 || took < 0.25;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return rank == 0 ? took / count * 1e9 : 0;
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double barrier = mean(1, rank), allreduce = mean(0, rank);
    if (rank == 0)
        printf("%.0f %.0f\n", barrier, allreduce);
    MPI_Finalize();
    return 0;
}
