// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev What a provider asks for a model now: all that a post needs, in one storage slot. 0 = nothing.
///
/// bits      field
/// 0..95     inputPrice
/// 96..191   outputPrice
/// 192..239  offeringId
type CurrentOffering is uint256;

using {inputPrice, outputPrice, offeringId} for CurrentOffering global;

/// @dev No offering.
CurrentOffering constant NO_OFFERING = CurrentOffering.wrap(0);

uint256 constant OUTPUT_PRICE_SHIFT = 96;
uint256 constant OFFERING_ID_SHIFT = 192;

function packCurrentOffering(uint48 offeringId_, uint96 inputPrice_, uint96 outputPrice_)
    pure
    returns (CurrentOffering)
{
    return CurrentOffering.wrap(
        (uint256(offeringId_) << OFFERING_ID_SHIFT) | (uint256(outputPrice_) << OUTPUT_PRICE_SHIFT) | inputPrice_
    );
}

function inputPrice(CurrentOffering offering) pure returns (uint96) {
    return uint96(CurrentOffering.unwrap(offering));
}

function outputPrice(CurrentOffering offering) pure returns (uint96) {
    return uint96(CurrentOffering.unwrap(offering) >> OUTPUT_PRICE_SHIFT);
}

function offeringId(CurrentOffering offering) pure returns (uint48) {
    return uint48(CurrentOffering.unwrap(offering) >> OFFERING_ID_SHIFT);
}
