/* Registration of the babeltrace2 component classes. */
#include <babeltrace2/babeltrace.h>

#include "plugin/findings.h"
#include "plugin/report.h"
#include "plugin/sink.h"

BT_PLUGIN_MODULE();
BT_PLUGIN(vblk);
BT_PLUGIN_DESCRIPTION("Verdicts on recordings of a virtio-blk device");
BT_PLUGIN_AUTHOR("The vblkscope developers");
BT_PLUGIN_LICENSE("MIT");

BT_PLUGIN_SINK_COMPONENT_CLASS(report, sink_consume);
BT_PLUGIN_SINK_COMPONENT_CLASS_DESCRIPTION(report, "Say what is wrong in a recording of vblkd.");
BT_PLUGIN_SINK_COMPONENT_CLASS_HELP(report, "See babeltrace2-sink.vblk.report(7).");
BT_PLUGIN_SINK_COMPONENT_CLASS_INITIALIZE_METHOD(report, report_initialize);
BT_PLUGIN_SINK_COMPONENT_CLASS_GRAPH_IS_CONFIGURED_METHOD(report, sink_graph_is_configured);
BT_PLUGIN_SINK_COMPONENT_CLASS_FINALIZE_METHOD(report, sink_finalize);

BT_PLUGIN_FILTER_COMPONENT_CLASS(findings, findings_next);
BT_PLUGIN_FILTER_COMPONENT_CLASS_DESCRIPTION(findings, "Add an event for each thing that is wrong in a recording of vblkd.");
BT_PLUGIN_FILTER_COMPONENT_CLASS_HELP(findings, "See babeltrace2-filter.vblk.findings(7).");
BT_PLUGIN_FILTER_COMPONENT_CLASS_INITIALIZE_METHOD(findings, findings_initialize);
BT_PLUGIN_FILTER_COMPONENT_CLASS_FINALIZE_METHOD(findings, findings_finalize);
BT_PLUGIN_FILTER_COMPONENT_CLASS_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD(findings, findings_iterator_initialize);
BT_PLUGIN_FILTER_COMPONENT_CLASS_MESSAGE_ITERATOR_CLASS_FINALIZE_METHOD(findings, findings_iterator_finalize);
BT_PLUGIN_FILTER_COMPONENT_CLASS_MESSAGE_ITERATOR_CLASS_SEEK_BEGINNING_METHODS(findings, findings_seek_beginning,
                                                                               findings_can_seek_beginning);
