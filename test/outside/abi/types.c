/* The same for gasnet.h. */
#include <gasnet.h>
#include <gasnet_coll.h>
#include <gasnet_vis.h>

void types(gasnet_node_t a, gasnet_handlerarg_t b, gasnet_handler_t c, gasnet_token_t d,
           gasnet_handlerentry_t* e, gasnet_seginfo_t* f, gasnet_handle_t g,
           gasnet_register_value_t h, gasnet_nodeinfo_t* i, gasnet_memvec_t* j, gasnet_hsl_t* k,
           gasnet_valget_handle_t l, gasnet_threadinfo_t* m);
void types(gasnet_node_t a, gasnet_handlerarg_t b, gasnet_handler_t c, gasnet_token_t d,
           gasnet_handlerentry_t* e, gasnet_seginfo_t* f, gasnet_handle_t g,
           gasnet_register_value_t h, gasnet_nodeinfo_t* i, gasnet_memvec_t* j, gasnet_hsl_t* k,
           gasnet_valget_handle_t l, gasnet_threadinfo_t* m) {
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i, (void)j, (void)k,
      (void)l, (void)m;
}
