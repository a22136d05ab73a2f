/* Rank 0 is given a credential and hands it to the others, which have it looked at; so they do with a forged
   one. */
#include "pmix_common.h"

int main(void)
{
    pmix_byte_object_t credential;
    pmix_proc_t first;
    pmix_value_t value, *found;
    pmix_info_t *facts, wanted;
    size_t count = 0;

    begin();
    PMIX_PROC_LOAD(&first, self.nspace, 0);
    if (self.rank == 0) {
        PMIX_INFO_LOAD(&wanted, PMIX_CRED_TYPE, "munge", PMIX_STRING);
        expect(PMIx_Get_credential(&wanted, 1, &credential), PMIX_ERR_NOT_SUPPORTED, "munge");
        check(PMIx_Get_credential(NULL, 0, &credential), "credential");
        value.type = PMIX_BYTE_OBJECT;
        value.data.bo = credential;
        check(PMIx_Put(PMIX_GLOBAL, "credential", &value), "put");
        check(PMIx_Commit(), "commit");
    }
    meet();
    check(PMIx_Get(&first, "credential", NULL, 0, &found), "get");
    credential = found->data.bo;
    check(PMIx_Validate_credential(&credential, NULL, 0, &facts, &count), "validate");
    int is_user = 0, is_group = 0;
    for (size_t at = 0; at < count; at++) {
        is_user |= PMIX_CHECK_KEY(&facts[at], PMIX_USERID) && facts[at].value.data.uint32 == geteuid();
        is_group |= PMIX_CHECK_KEY(&facts[at], PMIX_GRPID) && facts[at].value.data.uint32 == getegid();
    }
    holds(is_user && is_group, "it is that of our user and group");
    credential.bytes[0] ^= 1;
    expect(PMIx_Validate_credential(&credential, NULL, 0, &facts, &count), PMIX_ERR_INVALID_CRED,
           "a forged one");
    say("the credential is good");
    return finish();
}
