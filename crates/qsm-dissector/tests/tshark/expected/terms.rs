use qsm_wire::RegionId;
use qsm_wire::membership::{GroupLifetime, MemberFilter, RepairLimit, Signer, ToldLimit, Update};

use super::Sheet;

pub(super) fn of_terms(sheet: &mut Sheet, terms: &Update) {
    match terms {
        Update::Lifetimes { region, groups } => {
            sheet.put("update", 10);
            sheet.put("region", region);
            groups.iter().for_each(|one| of_lifetime(sheet, *one));
        }
        Update::Repairs { told } => {
            sheet.put("update", 11);
            of_told_limit(sheet, *told);
        }
        Update::MinimumRate {
            region,
            packets_per_second,
        } => of_minimum_rate(sheet, *region, *packets_per_second),
        Update::NothingOwed { origin } => {
            sheet.put("update", 13);
            sheet.origin("origin", *origin);
        }
        Update::Proof { region, demand } => {
            sheet.put("update", 14);
            sheet.put("region", region);
            sheet.put("proof", *demand as u8 + 1);
        }
        Update::Signers { region, signers } => {
            sheet.put("update", 15);
            sheet.put("region", region);
            signers.iter().for_each(|one| of_signer(sheet, one));
        }
        other => panic!("{other:?} is compared nowhere"),
    }
}

fn of_signer(sheet: &mut Sheet, one: &Signer) {
    sheet.origin("origin", one.origin);
    sheet.text("signer.key", &one.key);
    one.barred
        .iter()
        .for_each(|group| sheet.put("group", group));
}

fn of_lifetime(sheet: &mut Sheet, one: GroupLifetime) {
    sheet.put("group", one.group);
    sheet.put("lifetime", one.ms);
}

fn of_minimum_rate(sheet: &mut Sheet, region: RegionId, packets_per_second: u32) {
    sheet.put("update", 12);
    sheet.put("region", region);
    sheet.put("minimum_rate", packets_per_second);
}

pub(super) fn of_told_limit(sheet: &mut Sheet, told: ToldLimit) {
    sheet.put("repairs_number", told.number);
    of_repair_limit(sheet, told.limit);
}

fn of_repair_limit(sheet: &mut Sheet, limit: RepairLimit) {
    sheet.put("repair_rate", limit.bytes_per_second);
    sheet.put("repair_share", limit.share_ppm);
}

pub(super) fn of_filter(sheet: &mut Sheet, member: &MemberFilter) {
    sheet.origin("origin", member.origin);
    for group in &member.unwanted {
        sheet.put("group", group);
    }
    for start in &member.since {
        sheet.put("group", start.group);
        sheet.put("view", start.view);
    }
}
