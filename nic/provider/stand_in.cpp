// Linked in place of a libibverbs of another release, and never loaded: it has the functions that
// the provider takes from libibverbs, under the symbol versions that they have there.
extern "C" {
void ibv_is_fork_initialized() {}
void PENSTOCK_REGISTER_DRIVER() {}
void _verbs_init_and_alloc_context() {}
void verbs_set_ops() {}
void verbs_uninit_context() {}
}
