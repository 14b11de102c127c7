import type { Address, Hex, TypedDataDomain } from "viem";
import type { Usage } from "./usage.ts";

/**
 * EIP-712 messages between client (the gateway's wallet), provider and escrow. Every message names its purpose in its type, so that
 * no signature of one kind can be replayed as another; every message is bound to chain and escrow by the domain.
 */
export const messageTypes = {
  /** Client -> escrow: what was delivered. Signed by the job's client. */
  Receipt: [
    { name: "jobId", type: "bytes32" },
    { name: "provider", type: "address" },
    { name: "inputTokens", type: "uint64" },
    { name: "outputTokens", type: "uint64" },
    { name: "responseHash", type: "bytes32" },
  ],
  /** Provider -> client: the job with this request is taken. Signed by operator or owner; consent to a slash. */
  Acknowledgement: [
    { name: "jobId", type: "bytes32" },
    { name: "provider", type: "address" },
    { name: "requestHash", type: "bytes32" },
  ],
  /** Client -> provider: run this request on this job. Signed by the job's client; `expiresAt` in Unix seconds. */
  Authorization: [
    { name: "jobId", type: "bytes32" },
    { name: "requestHash", type: "bytes32" },
    { name: "expiresAt", type: "uint64" },
  ],
  /** Provider -> client: final usage and hash of the response. Signed by the operator. */
  UsageStatement: [
    { name: "jobId", type: "bytes32" },
    { name: "provider", type: "address" },
    { name: "inputTokens", type: "uint64" },
    { name: "outputTokens", type: "uint64" },
    { name: "responseHash", type: "bytes32" },
  ],
  /** Provider -> anyone: SHA-256 of the exact JSON text of its status. `issuedAt` in Unix milliseconds. Signed by the operator. */
  ProviderStatus: [
    { name: "provider", type: "address" },
    { name: "issuedAt", type: "uint64" },
    { name: "bodyHash", type: "bytes32" },
  ],
} as const;

export type MessageName = keyof typeof messageTypes;

/** Where the messages live: one escrow on one chain. */
export interface MessageDomain {
  readonly chainId: number;
  readonly escrow: Address;
}

/** The EIP-712 domain of `JobEscrow`. */
export function typedDataDomain(domain: MessageDomain) {
  return {
    name: "T4T JobEscrow",
    version: "1",
    chainId: domain.chainId,
    verifyingContract: domain.escrow,
  } as const satisfies TypedDataDomain;
}

/** Fields of `Receipt` and `UsageStatement`. */
export interface DeliveredMessage {
  readonly jobId: Hex;
  readonly provider: Address;
  readonly usage: Usage;
  readonly responseHash: Hex;
}

export interface AcknowledgementMessage {
  readonly jobId: Hex;
  readonly provider: Address;
  readonly requestHash: Hex;
}

export interface AuthorizationMessage {
  readonly jobId: Hex;
  readonly requestHash: Hex;
  /** Unix seconds after which the provider must refuse it. */
  readonly expiresAt: number;
}

export interface ProviderStatusMessage {
  readonly provider: Address;
  /** Unix milliseconds. */
  readonly issuedAt: number;
  readonly bodyHash: Hex;
}

function delivered(message: DeliveredMessage) {
  return {
    jobId: message.jobId,
    provider: message.provider,
    inputTokens: BigInt(message.usage.inputTokens),
    outputTokens: BigInt(message.usage.outputTokens),
    responseHash: message.responseHash,
  } as const;
}

/** Typed data of a receipt, for `signTypedData` and `verifyTypedData`. */
export function receiptTypedData(domain: MessageDomain, message: DeliveredMessage) {
  return {
    domain: typedDataDomain(domain),
    types: { Receipt: messageTypes.Receipt },
    primaryType: "Receipt",
    message: delivered(message),
  } as const;
}

/** Typed data of a provider's usage statement. */
export function usageStatementTypedData(domain: MessageDomain, message: DeliveredMessage) {
  return {
    domain: typedDataDomain(domain),
    types: { UsageStatement: messageTypes.UsageStatement },
    primaryType: "UsageStatement",
    message: delivered(message),
  } as const;
}

/** Typed data of a provider's acknowledgement. */
export function acknowledgementTypedData(domain: MessageDomain, message: AcknowledgementMessage) {
  return {
    domain: typedDataDomain(domain),
    types: { Acknowledgement: messageTypes.Acknowledgement },
    primaryType: "Acknowledgement",
    message,
  } as const;
}

/** Typed data of a client's authorisation of one request. */
export function authorizationTypedData(domain: MessageDomain, message: AuthorizationMessage) {
  return {
    domain: typedDataDomain(domain),
    types: { Authorization: messageTypes.Authorization },
    primaryType: "Authorization",
    message: { jobId: message.jobId, requestHash: message.requestHash, expiresAt: BigInt(message.expiresAt) },
  } as const;
}

/** Typed data of a provider's status. */
export function providerStatusTypedData(domain: MessageDomain, message: ProviderStatusMessage) {
  return {
    domain: typedDataDomain(domain),
    types: { ProviderStatus: messageTypes.ProviderStatus },
    primaryType: "ProviderStatus",
    message: { provider: message.provider, issuedAt: BigInt(message.issuedAt), bodyHash: message.bodyHash },
  } as const;
}
