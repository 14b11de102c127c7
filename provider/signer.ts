import type { Address, Hex, LocalAccount } from "viem";
import { bodyHash } from "../protocol/body-hash.ts";
import {
  acknowledgementTypedData,
  type DeliveredMessage,
  type MessageDomain,
  providerStatusTypedData,
  usageStatementTypedData,
} from "../protocol/messages.ts";
import type { SignedProviderStatus } from "../protocol/status.ts";

/** Signs what a provider says, with its operator's key. */
export class ProviderSigner {
  readonly #account: LocalAccount;
  readonly domain: MessageDomain;
  /** The provider's identity: its owner. */
  readonly provider: Address;

  constructor(account: LocalAccount, domain: MessageDomain, provider: Address) {
    this.#account = account;
    this.domain = domain;
    this.provider = provider;
  }

  /** Consent to serve a job with this request. */
  async acknowledge(jobId: Hex, requestHash: Hex): Promise<Hex> {
    const message = { jobId, provider: this.provider, requestHash };
    return await this.#account.signTypedData(acknowledgementTypedData(this.domain, message));
  }

  /** Our word on what was delivered. */
  async stateUsage(delivered: Omit<DeliveredMessage, "provider">): Promise<Hex> {
    const message = { ...delivered, provider: this.provider };
    return await this.#account.signTypedData(usageStatementTypedData(this.domain, message));
  }

  /** Our status; `body` is its exact JSON text, made at `issuedAt` (Unix ms). */
  async signStatus(body: string, issuedAt: number): Promise<SignedProviderStatus> {
    const message = { provider: this.provider, issuedAt, bodyHash: bodyHash(body) };
    const signature = await this.#account.signTypedData(providerStatusTypedData(this.domain, message));
    return { body, signature };
  }
}
