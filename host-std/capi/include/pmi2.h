/* Interface of PMI-2, implemented by libpmi2.so.0 of the PMI family in Rust.
 *
 * Specification: the page "PMI v2 API" of MPICH. Where the headers in use (Slurm, MPICH up to 4.0) have
 * other prototypes than the page, they are those of the headers, since programs are built with them.
 *
 * Every function returns one of the codes below, except PMI2_Initialized. Before PMI2_Init, after
 * PMI2_Finalize and in a child that was forked while PMI was in use, that is PMI2_ERR_INIT. A buffer that is
 * too small is PMI2_ERR_NOMEM, but for PMI2_KVS_Get.
 *
 * A result may be a null pointer if the caller does not want it, a buffer or an array with length 0: PMI2_KVS_Get
 * measures a value so. What a missing number would have told is a code then: PMI2_ERR_INVALID_KEY for `found`,
 * PMI2_ERR_NOMEM for `vallen` if the value does not fit. The one number of a function must be there.
 *
 * All functions may be called by several threads at once. A thread that waits delays no other, unless the
 * server speaks PMI-1 or PMIx only.
 */
#ifndef PMI2_H_INCLUDED
#define PMI2_H_INCLUDED

#ifdef __cplusplus
extern "C" {
#endif

#ifndef PMI_VERSION
#define PMI_VERSION 2
#define PMI_SUBVERSION 0
#endif

#define PMI2_MAX_KEYLEN 64
#define PMI2_MAX_VALLEN 1024
#define PMI2_MAX_ATTRVALUE 1024
#define PMI2_ID_NULL (-1)

#define PMI2_SUCCESS 0
#define PMI2_FAIL (-1)
#define PMI2_ERR_INIT 1
#define PMI2_ERR_NOMEM 2
#define PMI2_ERR_INVALID_ARG 3
#define PMI2_ERR_INVALID_KEY 4
#define PMI2_ERR_INVALID_KEY_LENGTH 5
#define PMI2_ERR_INVALID_VAL 6
#define PMI2_ERR_INVALID_VAL_LENGTH 7
#define PMI2_ERR_INVALID_LENGTH 8
#define PMI2_ERR_INVALID_NUM_ARGS 9
#define PMI2_ERR_INVALID_ARGS 10
#define PMI2_ERR_INVALID_NUM_PARSED 11
#define PMI2_ERR_INVALID_KEYVALP 12
#define PMI2_ERR_INVALID_SIZE 13
#define PMI2_ERR_OTHER 14

/* The connection of two leading processes, for servers that cannot read each other's key-value spaces. */
typedef struct PMI2_Connect_comm {
    int (*read)(void *buf, int maxlen, void *ctx);
    int (*write)(const void *buf, int len, void *ctx);
    void *ctx;
    int isMaster;
} PMI2_Connect_comm_t;

/* A hint of MPI. The first three fields belong to the MPI library. */
typedef struct MPID_Info {
    int handle;
    int pobj_mutex;
    int ref_count;
    struct MPID_Info *next;
    char *key;
    char *value;
} MPID_Info;
#define PMI2U_Info MPID_Info

/* Opens the session of the process. A second call counts one more user; PMI2_Finalize ends the session when
 * it was called as often. The application number is -1 if the server does not know it. */
int PMI2_Init(int *spawned, int *size, int *rank, int *appnum);
int PMI2_Finalize(void);

/* 1 between the two calls above, else 0. */
int PMI2_Initialized(void);

/* Prints the message, ends the job (with flag 0 only the process), and exits. Does not return. */
int PMI2_Abort(int flag, const char msg[]);

/* Starts processes as a job of their own. The list of arguments of each program has argcs elements. There is
 * one array of hints for each program, and one pointer for each value that the new job finds. The array of errors
 * has one element for each process, or is null; it is written also if the spawn fails. */
int PMI2_Job_Spawn(int count, const char *cmds[], int argcs[], const char **argvs[], const int maxprocs[],
                   const int info_keyval_sizes[], const struct MPID_Info *info_keyval_vectors[],
                   int preput_keyval_size, const struct MPID_Info *preput_keyval_vector[], char jobId[],
                   int jobIdSize, int errors[]);

/* Job and process. */
int PMI2_Job_GetId(char jobid[], int jobid_size);
int PMI2_Job_GetRank(int *rank);
int PMI2_Info_GetSize(int *size);

/* Other jobs, whose values PMI2_KVS_Get reads once they are connected. conn is not used: PMI2_FAIL if the servers of
 * the two jobs do not know each other's values. */
int PMI2_Job_Connect(const char jobid[], PMI2_Connect_comm_t *conn);
int PMI2_Job_Disconnect(const char jobid[]);

/* Key-value space of the job. If a value and its NUL do not fit into maxvalue bytes, PMI2_KVS_Get writes the
 * part that fits and stores the negative number of bytes needed in vallen. */
int PMI2_KVS_Put(const char key[], const char value[]);
int PMI2_KVS_Fence(void);
int PMI2_KVS_Get(const char *jobid, int src_pmi_id, const char key[], char value[], int maxvalue,
                 int *vallen);

/* Attributes of the node and of the job. An array that is too small is PMI2_ERR_NOMEM, with the number of
 * elements needed in outlen. */
int PMI2_Info_GetNodeAttr(const char name[], char value[], int valuelen, int *found, int waitfor);
int PMI2_Info_GetNodeAttrIntArray(const char name[], int array[], int arraylen, int *outlen, int *found);
int PMI2_Info_PutNodeAttr(const char name[], const char value[]);
int PMI2_Info_GetJobAttr(const char name[], char value[], int valuelen, int *found);
int PMI2_Info_GetJobAttrIntArray(const char name[], int array[], int arraylen, int *outlen, int *found);

/* Services. */
int PMI2_Nameserv_publish(const char service_name[], const struct MPID_Info *info_ptr, const char port[]);
int PMI2_Nameserv_lookup(const char service_name[], const struct MPID_Info *info_ptr, char port[],
                         int portLen);
int PMI2_Nameserv_unpublish(const char service_name[], const struct MPID_Info *info_ptr);

/* Exchanges a value with the ranks before and behind; left and right have maxvalue bytes each. */
#define HAVE_PMIX_RING 1
int PMIX_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue);

#ifdef __cplusplus
}
#endif

#endif
