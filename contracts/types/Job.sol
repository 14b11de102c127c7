// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev A job is two storage slots, both under its id.
///
/// `JobState` is all that a completion with a receipt, the common end, has to touch: the client, whose address would not fit, is
/// there by number, and the signer of a receipt is proven to be the client by the number in its own account, which is needed
/// anyway. A completion empties the slot, which gives back most of what writing it cost; every other end leaves its status there.
///
/// `JobParty` never changes: an id can never be used twice, and an end that needs neither party learns from it who the client
/// is. A party without a state is a completed job.

/// bits      field
/// 0..95     maxPayment
/// 96..135   offeringId
/// 136..167  clientNumber       see {Account}; never 0
/// 168..203  postedAt           Unix seconds
/// 204..227  duration           seconds from postedAt to the deadline
/// 228..251  sinceDelta         seconds from postedAt to the acknowledgement or the cancel request; saturates
/// 252..255  status             never 0
type JobState is uint256;

/// bits      field
/// 0..95     unsignedLimit
/// 96..255   client             never 0
type JobParty is uint256;

using {
    maxPayment,
    offeringId,
    clientNumber,
    postedAt,
    deadline,
    since,
    status,
    isEmpty,
    isLive,
    withStatus,
    withStatusAt
} for JobState global;
using {client, unsignedLimit, exists} for JobParty global;

/// @dev Longest duration, and longest time that `sinceDelta` holds: 194 days.
uint256 constant MAX_DELTA = type(uint24).max;

/// @dev State of a completed job.
JobState constant NO_STATE = JobState.wrap(0);

/// @dev `JobStatus.CancelRequested`; the ends come after it.
uint256 constant LAST_LIVE_STATUS = 3;

uint256 constant OFFERING_ID_SHIFT = 96;
uint256 constant CLIENT_NUMBER_SHIFT = 136;
uint256 constant POSTED_AT_SHIFT = 168;
uint256 constant DURATION_SHIFT = 204;
uint256 constant SINCE_DELTA_SHIFT = 228;
uint256 constant STATUS_SHIFT = 252;
uint256 constant CLIENT_SHIFT = 96;

/// @dev The caller answers for the ranges: offering ids end at 40 bits, durations and times were checked.
function packState(
    uint256 status_,
    uint256 postedAt_,
    uint256 deadline_,
    uint256 clientNumber_,
    uint256 offeringId_,
    uint96 maxPayment_
) pure returns (JobState) {
    unchecked {
        return JobState.wrap(
            (status_ << STATUS_SHIFT) | ((deadline_ - postedAt_) << DURATION_SHIFT) | (postedAt_ << POSTED_AT_SHIFT)
                | (clientNumber_ << CLIENT_NUMBER_SHIFT) | (offeringId_ << OFFERING_ID_SHIFT) | maxPayment_
        );
    }
}

function maxPayment(JobState state) pure returns (uint96) {
    return uint96(JobState.unwrap(state));
}

function offeringId(JobState state) pure returns (uint40) {
    return uint40(JobState.unwrap(state) >> OFFERING_ID_SHIFT);
}

function clientNumber(JobState state) pure returns (uint32) {
    return uint32(JobState.unwrap(state) >> CLIENT_NUMBER_SHIFT);
}

function postedAt(JobState state) pure returns (uint40) {
    return uint40((JobState.unwrap(state) >> POSTED_AT_SHIFT) & ((1 << 36) - 1));
}

function deadline(JobState state) pure returns (uint40) {
    return postedAt(state) + uint24(JobState.unwrap(state) >> DURATION_SHIFT);
}

function since(JobState state) pure returns (uint40) {
    return postedAt(state) + uint24(JobState.unwrap(state) >> SINCE_DELTA_SHIFT);
}

function status(JobState state) pure returns (uint8) {
    return uint8(JobState.unwrap(state) >> STATUS_SHIFT);
}

function isEmpty(JobState state) pure returns (bool) {
    return JobState.unwrap(state) == 0;
}

/// @dev Open, acknowledged or with its cancellation requested.
function isLive(JobState state) pure returns (bool) {
    unchecked {
        // Status 0 wraps around and is above.
        return (JobState.unwrap(state) >> STATUS_SHIFT) - 1 < LAST_LIVE_STATUS;
    }
}

/// @dev Another status, `since` kept.
function withStatus(JobState state, uint256 status_) pure returns (JobState) {
    uint256 rest = JobState.unwrap(state) & ((uint256(1) << STATUS_SHIFT) - 1);
    return JobState.wrap(rest | (status_ << STATUS_SHIFT));
}

/// @dev Another status from `time` on.
function withStatusAt(JobState state, uint256 status_, uint256 time) pure returns (JobState) {
    uint256 delta = time - postedAt(state);
    if (delta > MAX_DELTA) delta = MAX_DELTA;
    uint256 rest = JobState.unwrap(state) & ((uint256(1) << SINCE_DELTA_SHIFT) - 1);
    return JobState.wrap(rest | (delta << SINCE_DELTA_SHIFT) | (status_ << STATUS_SHIFT));
}

function packParty(address client_, uint96 unsignedLimit_) pure returns (JobParty) {
    return JobParty.wrap((uint256(uint160(client_)) << CLIENT_SHIFT) | unsignedLimit_);
}

function client(JobParty party) pure returns (address) {
    return address(uint160(JobParty.unwrap(party) >> CLIENT_SHIFT));
}

function unsignedLimit(JobParty party) pure returns (uint96) {
    return uint96(JobParty.unwrap(party));
}

function exists(JobParty party) pure returns (bool) {
    return JobParty.unwrap(party) != 0;
}
