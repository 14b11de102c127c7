import { type Address, type Hex, hashTypedData } from "viem";
import { recoverSigner } from "../../protocol/signing.ts";
import { acknowledgementTypedData, type MessageDomain, usageStatementTypedData } from "../../protocol/messages.ts";
import type { UsageStatementWire } from "../../protocol/wire.ts";

/** Who may sign for a provider. */
export interface ProviderSigners {
  readonly provider: Address;
  readonly operator: Address;
}

/** Whether the provider took this job for exactly this request. */
export function isAcknowledgement(
  domain: MessageDomain,
  signers: ProviderSigners,
  message: { readonly jobId: Hex; readonly requestHash: Hex },
  signature: Hex,
): boolean {
  const typedData = acknowledgementTypedData(domain, { ...message, provider: signers.provider });
  return isSigner(signers, recoverSigner(hashTypedData(typedData), signature));
}

/** Whether a usage statement is the provider's word on this job. */
export function isStatement(
  domain: MessageDomain,
  signers: ProviderSigners,
  jobId: Hex,
  statement: UsageStatementWire,
): boolean {
  const typedData = usageStatementTypedData(domain, {
    jobId,
    provider: signers.provider,
    usage: { inputTokens: statement.inputTokens, outputTokens: statement.outputTokens },
    responseHash: statement.responseHash,
  });
  return isSigner(signers, recoverSigner(hashTypedData(typedData), statement.signature));
}

function isSigner(signers: ProviderSigners, address: Address | undefined): boolean {
  return address !== undefined && (address === signers.operator || address === signers.provider);
}
