/* MPI sessions: no MPI_Init. Communicators are made of the process set of all, twice at once and one after the other,
 * and of the even ranks alone; each is used. The two halves meet through a communicator between them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static MPI_Comm made(MPI_Group group, const char *tag, int *size)
{
    MPI_Comm comm;

    if (MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm) != MPI_SUCCESS)
        exit(65);
    MPI_Comm_size(comm, size);
    return comm;
}

static int sum_of(MPI_Comm comm)
{
    int rank, sum;

    MPI_Comm_rank(comm, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    return sum;
}

int main(void)
{
    MPI_Session session;
    MPI_Group all, even;
    MPI_Comm comm, other;
    int size, rank, others, sets;

    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) != MPI_SUCCESS)
        return 66;
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
    comm = made(all, "all", &size);
    MPI_Comm_rank(comm, &rank);
    other = made(all, "all again", &others);
    printf("rank %d of %d: sums %d and %d, %s sets\n", rank, size, sum_of(comm), sum_of(other),
           sets >= 2 ? "known" : "no");
    MPI_Comm_free(&other);

    int step[1][3] = {{0, size - 1, 2}};
    MPI_Group_range_incl(all, 1, step, &even);
    if (rank % 2 == 0) {
        other = made(even, "even", &others);
        printf("rank %d is one of %d even ones, which sum up to %d\n", rank, others, sum_of(other));
        MPI_Comm_free(&other);
    }
    fflush(stdout);
    MPI_Barrier(comm);

    if (size > 1) {
        int is_upper = rank >= size / 2, sum;
        int ranges[2][1][3] = {{{0, size / 2 - 1, 1}}, {{size / 2, size - 1, 1}}};
        MPI_Group halves[2];
        MPI_Group_range_incl(all, 1, ranges[0], &halves[0]);
        MPI_Group_range_incl(all, 1, ranges[1], &halves[1]);
        MPI_Intercomm_create_from_groups(halves[is_upper], 0, halves[!is_upper], 0, "halves", MPI_INFO_NULL,
                                         MPI_ERRORS_ARE_FATAL, &other);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, other);
        printf("rank %d gets %d from the other half\n", rank, sum);
        fflush(stdout);
        MPI_Comm_free(&other);
        MPI_Group_free(&halves[0]);
        MPI_Group_free(&halves[1]);
    }
    /* All have printed everything before the first one ends. */
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&even);
    MPI_Group_free(&all);
    MPI_Session_finalize(&session);
    return 0;
}
