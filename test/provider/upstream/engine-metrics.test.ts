import { expect } from "chai";
import * as fc from "fast-check";
import { readEngineFacts } from "../../../provider/upstream/engine-metrics.ts";

describe("readEngineFacts", () => {
  it("reads vLLM's page", () => {
    const page = [
      "# HELP process_start_time_seconds x",
      "process_start_time_seconds 1.7e9",
      'vllm:cache_config_info{block_size="16",cache_dtype="auto",num_gpu_blocks="1000"} 1.0',
      'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25',
    ].join("\n");
    expect(readEngineFacts(page)).to.deep.equal({ process: "1700000000", kvFreeTokens: 12_000 });
    expect(readEngineFacts(page.replace("kv_cache_usage", "gpu_cache_usage")).kvFreeTokens).to.equal(12_000);
  });

  it("reads llama.cpp's page", () => {
    const page = "llamacpp:kv_cache_usage_ratio 0.5\nllamacpp:kv_cache_tokens 2048\n";
    expect(readEngineFacts(page)).to.deep.equal({ process: undefined, kvFreeTokens: 2048 });
  });

  it("leaves unknown what the page does not tell, rather than take it for 0", () => {
    for (const page of [
      "",
      "x",
      "vllm:kv_cache_usage_perc 0.5",
      "llamacpp:kv_cache_usage_ratio 0\nllamacpp:kv_cache_tokens 0",
    ]) {
      expect(readEngineFacts(page).kvFreeTokens).to.equal(undefined);
    }
    const blocks = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1\nvllm:kv_cache_usage_perc 0.5';
    expect(readEngineFacts(blocks).kvFreeTokens).to.equal(undefined);
  });

  it("reads any text without throwing", () => {
    fc.assert(
      fc.property(fc.string(), (page) => {
        readEngineFacts(page);
      }),
    );
  });
});
