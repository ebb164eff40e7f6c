// Graphs: replays of captured work. The engine chooses the order of nodes that are ready: the last captured first.
#include <algorithm>

#include "runtime.h"

using namespace dptrain::cuda_sim;

struct CUgraphExec_st {
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
  OpPtr last;  // a graph's launches follow each other
};

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  *graph = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (graph == nullptr) return finish(cudaErrorInvalidValue);
  Lock lock(runtime().mutex);
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  if (exec == nullptr || graph == nullptr) return finish(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{graph->nodes, nullptr};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  if (exec == nullptr) return finish(cudaErrorInvalidValue);
  Lock lock(runtime().mutex);
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  return finish(exec != nullptr && find_stream(stream) != nullptr ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  CUstream_st* stream = find_stream(handle);
  if (exec == nullptr || stream == nullptr) return refuse(cudaErrorInvalidValue, "cudaGraphLaunch: no graph or stream");
  if (stream->capture != nullptr) {
    return refuse(cudaErrorNotSupported, "cudaGraphLaunch: graphs inside of captured graphs are not simulated");
  }
  if (const cudaError_t error = check_legacy(*stream); error != cudaSuccess) return finish(error);
  const OpPtr begin = append(*stream, nullptr);
  precede(begin, exec->last);
  std::vector<OpPtr> ops;
  for (const auto& node : exec->nodes) {
    const OpPtr op = make_op(node->device, node->work.body);
    precede(op, begin);
    for (const std::size_t before : node->predecessors) precede(op, ops[before]);
    if (node->work.join) node->work.join(op);
    ops.push_back(op);
  }
  const OpPtr end = append(*stream, nullptr);
  for (const OpPtr& op : ops) precede(end, op);
  exec->last = end;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  Lock lock(runtime().mutex);
  if (graph == nullptr || count == nullptr) return finish(cudaErrorInvalidValue);
  if (nodes == nullptr) {
    *count = graph->nodes.size();
    return cudaSuccess;
  }
  for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
  *count = std::min(*count, graph->nodes.size());
  return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  if (node == nullptr || type == nullptr) return finish(cudaErrorInvalidValue);
  *type = node->work.type;
  return cudaSuccess;
}

}  // extern "C"
