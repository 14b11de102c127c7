import type { ProgressEvent } from "../../protocol/progress.ts";

/** A token amount for people: whole tokens with up to six decimals. `decimals` is the token's. */
export function formatAmount(wei: bigint, decimals: number, symbol: string): string {
  const scale = 10n ** BigInt(decimals);
  const fraction = (wei % scale).toString().padStart(decimals, "0").replace(/0+$/, "");
  return `${wei / scale}${fraction === "" ? "" : `.${fraction}`} ${symbol}`;
}

/** One line for a person about a step of a job. */
export function describeProgress(event: ProgressEvent): string {
  switch (event.type) {
    case "selecting_provider":
      return `selecting_provider     model ${event.model}`;
    case "waiting_for_capacity":
      return `waiting_for_capacity   position ${event.position}, ${event.busyProviders} of the model's providers full, waited ${(event.waitedMs / 1000).toFixed(1)} s of ${Math.round(event.limitMs / 1000)} s`;
    case "provider_selected":
      return `provider_selected      ${event.provider} (${event.policy}: ${event.reason})`;
    case "posting_job":
      return `posting_job            ${event.candidates.length} candidate${event.candidates.length === 1 ? "" : "s"}, locks at most ${event.maxPayment} wei`;
    case "job_posted":
      return `job_posted             ${event.jobId} in block ${event.blockNumber}`;
    case "provider_acked":
      return `provider_acked         ${event.provider} signed for the job`;
    case "delivered":
      return `delivered              ${event.usage.inputTokens} input + ${event.usage.outputTokens} output tokens`;
    case "settled":
      return `settled                paid ${event.payment} wei for ${event.usage.inputTokens} + ${event.usage.outputTokens} tokens`;
    case "provider_failed":
      return `provider_failed        ${event.provider}: ${event.message}`;
    case "failed":
      return `failed                 ${event.code}: ${event.message}`;
  }
}
