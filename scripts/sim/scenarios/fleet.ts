import type { BackendConfig } from "../model/backend.ts";
import { simAddress } from "../model/chain.ts";

/** Round trips between five regions, ms. */
const roundTrips: readonly (readonly number[])[] = [
  [2, 70, 140, 90, 180],
  [70, 2, 80, 150, 110],
  [140, 80, 2, 220, 160],
  [90, 150, 220, 2, 240],
  [180, 110, 160, 240, 2],
];

/** Round trip between two of five regions. */
export function fiveRegions(a: number, b: number): number {
  return roundTrips[a]?.[b] ?? 2;
}

/** Equal healthy backends, one region. */
export function equalBackends(count: number, change: Partial<BackendConfig> = {}): BackendConfig[] {
  return Array.from({ length: count }, (_, index) => ({
    address: simAddress(index),
    region: 0,
    slots: 8,
    prefillTps: 8000,
    decodeTps: 80,
    crowding: 0.2,
    overheadMs: 20,
    cacheTokens: 400_000,
    sharedPrefill: true,
    excludeCached: true,
    initialTps: 8000,
    reportsMaximum: true,
    ...change,
  }));
}
