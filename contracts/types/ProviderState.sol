// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev All that taking and freeing a slot reads and writes, in one storage slot, so that a job costs the registry one write.
///
/// bits      field
/// 0..31     openJobs           slots taken now
/// 32..63    maxConcurrentJobs  cap; 0 = none
/// 64..103   lastSeen           Unix seconds; never 0 for a registered provider
/// 104       active
/// 128..255  headroom           int128: stake that is not unbonding, less the collateral of open jobs. Kept instead of the sum of
///                              the collateral because it alone decides whether one more job is covered; negative while
///                              unbonding has taken stake below what open jobs hold.
type ProviderState is uint256;

using {
    openJobs,
    maxConcurrentJobs,
    lastSeen,
    isActive,
    headroom,
    isRegistered,
    acquired,
    released,
    withMaxConcurrentJobs,
    withLastSeen,
    withActive,
    withHeadroom
} for ProviderState global;

uint256 constant MAX_CAP_SHIFT = 32;
uint256 constant LAST_SEEN_SHIFT = 64;
uint256 constant ACTIVE_SHIFT = 104;
uint256 constant HEADROOM_SHIFT = 128;

function openJobs(ProviderState state) pure returns (uint32) {
    return uint32(ProviderState.unwrap(state));
}

function maxConcurrentJobs(ProviderState state) pure returns (uint32) {
    return uint32(ProviderState.unwrap(state) >> MAX_CAP_SHIFT);
}

function lastSeen(ProviderState state) pure returns (uint40) {
    return uint40(ProviderState.unwrap(state) >> LAST_SEEN_SHIFT);
}

function isActive(ProviderState state) pure returns (bool) {
    return (ProviderState.unwrap(state) >> ACTIVE_SHIFT) & 1 != 0;
}

function headroom(ProviderState state) pure returns (int128) {
    return int128(uint128(ProviderState.unwrap(state) >> HEADROOM_SHIFT));
}

function isRegistered(ProviderState state) pure returns (bool) {
    return lastSeen(state) != 0;
}

/// @dev After `count` slots were taken on `collateral`. The caller has compared: neither counter nor headroom passes its end.
function acquired(ProviderState state, uint256 count, uint256 collateral) pure returns (ProviderState) {
    unchecked {
        return ProviderState.wrap(ProviderState.unwrap(state) + count - (collateral << HEADROOM_SHIFT));
    }
}

/// @dev After `count` slots and `collateral` came back. The caller has compared: `count <= openJobs`. Headroom stops at the end of its
/// type: only a market that gives back what it never took gets it there, and round the end it would be a debt.
function released(ProviderState state, uint256 count, uint128 collateral) pure returns (ProviderState) {
    unchecked {
        uint256 freed = ProviderState.unwrap(state) - count;
        uint256 next = freed + (uint256(collateral) << HEADROOM_SHIFT);
        // Headroom is on top, so a sum that passed its end is less, as a signed number, than what was added to.
        if (int256(next) < int256(freed)) return ProviderState.wrap(freed).withHeadroom(type(int128).max);
        return ProviderState.wrap(next);
    }
}

function withMaxConcurrentJobs(ProviderState state, uint32 value) pure returns (ProviderState) {
    uint256 rest = ProviderState.unwrap(state) & ~(uint256(type(uint32).max) << MAX_CAP_SHIFT);
    return ProviderState.wrap(rest | (uint256(value) << MAX_CAP_SHIFT));
}

function withLastSeen(ProviderState state, uint40 value) pure returns (ProviderState) {
    uint256 rest = ProviderState.unwrap(state) & ~(uint256(type(uint40).max) << LAST_SEEN_SHIFT);
    return ProviderState.wrap(rest | (uint256(value) << LAST_SEEN_SHIFT));
}

function withActive(ProviderState state, bool value) pure returns (ProviderState) {
    uint256 rest = ProviderState.unwrap(state) & ~(uint256(1) << ACTIVE_SHIFT);
    return ProviderState.wrap(value ? rest | (uint256(1) << ACTIVE_SHIFT) : rest);
}

function withHeadroom(ProviderState state, int128 value) pure returns (ProviderState) {
    uint256 rest = ProviderState.unwrap(state) & type(uint128).max;
    return ProviderState.wrap(rest | (uint256(uint128(value)) << HEADROOM_SHIFT));
}
