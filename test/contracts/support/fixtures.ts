import { deployMarket } from "./market.ts";

/** An empty market. */
export async function emptyMarket() {
  return { market: await deployMarket() };
}

/** A market with one provider without a cap, one client, and somebody who is neither. */
export async function smallMarket() {
  const market = await deployMarket();
  const provider = await market.provider();
  const client = await market.client();
  const stranger = await market.holder();
  return { market, provider, client, stranger };
}

/** As `smallMarket`, with a job open. */
export async function openJob() {
  const parts = await smallMarket();
  const job = await parts.market.post(parts.client, parts.provider);
  return { ...parts, job };
}
