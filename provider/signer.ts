import type { Address, Hex, LocalAccount } from "viem";
import { bodyHash } from "../protocol/body-hash.ts";
import { acknowledgementDigest, providerStatusDigest, usageStatementDigest } from "../protocol/message-digest.ts";
import type { DeliveredMessage, MessageDomain } from "../protocol/messages.ts";
import type { SignedProviderStatus } from "../protocol/status.ts";

/** Signs what a provider says, with its operator's key. */
export class ProviderSigner {
  readonly #sign: NonNullable<LocalAccount["sign"]>;
  readonly domain: MessageDomain;
  /** The provider's identity: its owner. */
  readonly provider: Address;

  /** @throws TypeError for an account that cannot sign a digest. */
  constructor(account: Pick<LocalAccount, "sign">, domain: MessageDomain, provider: Address) {
    if (account.sign === undefined) throw new TypeError("the account cannot sign digests");
    this.#sign = account.sign;
    this.domain = domain;
    this.provider = provider;
  }

  /** Consent to serve a job with this request. */
  async acknowledge(jobId: Hex, requestHash: Hex): Promise<Hex> {
    const message = { jobId, provider: this.provider, requestHash };
    return await this.#sign({ hash: acknowledgementDigest(this.domain, message) });
  }

  /** Our word on what was delivered. */
  async stateUsage(delivered: Omit<DeliveredMessage, "provider">): Promise<Hex> {
    const message = { ...delivered, provider: this.provider };
    return await this.#sign({ hash: usageStatementDigest(this.domain, message) });
  }

  /** Our status; `body` is its exact JSON text, made at `issuedAt` (Unix ms). */
  async signStatus(body: string, issuedAt: number): Promise<SignedProviderStatus> {
    const message = { provider: this.provider, issuedAt, bodyHash: bodyHash(body) };
    const signature = await this.#sign({ hash: providerStatusDigest(this.domain, message) });
    return { body, signature };
  }
}
