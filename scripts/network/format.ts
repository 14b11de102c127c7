import type { ProgressEvent } from "../../protocol/progress.ts";
import type { TokenUnit } from "./token-unit.ts";

/** A token amount for people. `amount` is in the token's smallest unit. */
export function formatAmount(amount: bigint, { decimals, symbol }: TokenUnit): string {
  const scale = 10n ** BigInt(decimals);
  const fraction = decimals === 0 ? "" : (amount % scale).toString().padStart(decimals, "0").replace(/0+$/, "");
  return `${amount / scale}${fraction === "" ? "" : `.${fraction}`} ${symbol}`;
}

/** One line for a person about a step of a job; `unit` is that of the payment token. */
export function describeProgress(event: ProgressEvent, unit: TokenUnit): string {
  switch (event.type) {
    case "selecting_provider":
      return `selecting_provider     model ${event.model}`;
    case "waiting_for_capacity":
      return `waiting_for_capacity   position ${event.position}, ${event.busyProviders} of the model's providers full, waited ${(event.waitedMs / 1000).toFixed(1)} s of ${Math.round(event.limitMs / 1000)} s`;
    case "provider_selected":
      return `provider_selected      ${event.provider} (${event.policy}: ${event.reason})`;
    case "posting_job":
      return `posting_job            ${event.candidates.length} candidate${event.candidates.length === 1 ? "" : "s"}, locks at most ${formatAmount(BigInt(event.maxPayment), unit)}`;
    case "job_posted":
      return `job_posted             ${event.jobId} in block ${event.blockNumber}`;
    case "provider_acked":
      return `provider_acked         ${event.provider} signed for the job`;
    case "delivered":
      return `delivered              ${event.usage.inputTokens} input + ${event.usage.outputTokens} output tokens`;
    case "settled":
      return `settled                paid ${formatAmount(BigInt(event.payment), unit)} for ${event.usage.inputTokens} + ${event.usage.outputTokens} tokens`;
    case "provider_failed":
      return `provider_failed        ${event.provider}: ${event.message}`;
    case "failed":
      return `failed                 ${event.code}: ${event.message}`;
  }
}
