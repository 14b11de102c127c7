/** What an engine's own Prometheus page tells. Absent values are unknown. */
export interface EngineFacts {
  /** Changes when the engine restarts. */
  readonly process: string | undefined;
  /** Tokens that fit into the KV cache besides those in it. */
  readonly kvFreeTokens: number | undefined;
}

interface Sample {
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

/**
 * Reads the facts of a vLLM or llama.cpp metrics page.
 *
 * vLLM: `vllm:cache_config_info{num_gpu_blocks,block_size}` and `vllm:kv_cache_usage_perc` (`gpu_cache_usage_perc` in older
 * versions), a share 0..1. llama.cpp: `llamacpp:kv_cache_tokens` and `llamacpp:kv_cache_usage_ratio`.
 */
export function readEngineFacts(page: string): EngineFacts {
  const samples = parsePage(page);
  const first = (name: string): number | undefined => samples.get(name)?.[0]?.value;
  const started = first("process_start_time_seconds");
  return {
    process: started === undefined ? undefined : String(started),
    kvFreeTokens: vllmFreeTokens(samples) ?? llamaFreeTokens(first),
  };
}

function vllmFreeTokens(samples: ReadonlyMap<string, readonly Sample[]>): number | undefined {
  const usage = samples.get("vllm:kv_cache_usage_perc") ?? samples.get("vllm:gpu_cache_usage_perc");
  const share = usage?.[0]?.value;
  const labels = samples.get("vllm:cache_config_info")?.[0]?.labels;
  if (share === undefined || labels === undefined) return undefined;
  return tokens((1 - share) * Number(labels.get("num_gpu_blocks")) * Number(labels.get("block_size")));
}

function llamaFreeTokens(first: (name: string) => number | undefined): number | undefined {
  const used = first("llamacpp:kv_cache_tokens");
  const share = first("llamacpp:kv_cache_usage_ratio");
  if (used === undefined || share === undefined || share <= 0) return undefined;
  return tokens(used / share - used);
}

function tokens(value: number): number | undefined {
  return Number.isFinite(value) && value >= 0 ? Math.floor(value) : undefined;
}

const sampleLine = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)/;
const label = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;

function parsePage(page: string): Map<string, Sample[]> {
  const samples = new Map<string, Sample[]>();
  for (const line of page.split("\n")) {
    const match = sampleLine.exec(line);
    if (match?.[1] === undefined) continue;
    const value = Number(match[3]);
    if (!Number.isFinite(value)) continue;
    const labels = new Map<string, string>();
    for (const [, key, text] of (match[2] ?? "").matchAll(label)) {
      if (key !== undefined && text !== undefined) labels.set(key, text);
    }
    const list = samples.get(match[1]);
    if (list === undefined) samples.set(match[1], [{ labels, value }]);
    else list.push({ labels, value });
  }
  return samples;
}
