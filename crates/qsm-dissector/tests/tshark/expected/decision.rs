use qsm_wire::membership::{GroupAnswer, GroupDecision, GroupWay, RegionDecision};

use super::{Sheet, of_kind};

/// An answer to a question about a group.
pub(crate) fn of_group_answer(answer: &GroupAnswer) -> Sheet {
    let mut sheet = Sheet::default();
    let decision = answer.decision.as_ref();
    sheet.optional("decision_given", decision, |sheet, decision| {
        of_decision(sheet, decision);
    });
    sheet
}

fn of_decision(sheet: &mut Sheet, decision: &GroupDecision) {
    sheet.put("group", decision.group);
    sheet.put("receivers", decision.receivers);
    sheet.put("publishers_count", decision.publishers);
    sheet.put("packets", decision.packets);
    sheet.put("cost", decision.cost_ns);
    sheet.optional("rate_given", decision.rate, |sheet, rate| {
        sheet.put("rate_in_1000_s", rate);
    });
    sheet.optional("limits_given", decision.limits, |sheet, limits| {
        sheet.put("unwanted_ppm", limits.unwanted_ppm);
        sheet.optional("common_given", limits.common, |sheet, common| {
            sheet.put("common_saves", common);
        });
    });
    sheet.optional("pin_given", decision.pin.as_ref(), |sheet, pin| {
        sheet.text("pin", pin);
    });
    for region in &decision.regions {
        of_region_decision(sheet, region);
    }
    sheet.put("left_out", decision.left_out);
    decision.ways.iter().for_each(|way| of_way(sheet, way));
}

fn of_region_decision(sheet: &mut Sheet, region: &RegionDecision) {
    sheet.put("region", region.region);
    of_kind(sheet, region.kind);
    sheet.put("members_there", region.members);
    sheet.put("receivers", region.receivers);
    sheet.put("groups_count", region.groups);
    sheet.put("unwanted_ppm", region.unwanted_ppm);
    let hints = &region.hints;
    sheet.optional("domain_given", hints.domain.as_ref(), |sheet, domain| {
        sheet.text("domain", domain);
    });
    sheet.put("compartment", hints.compartment);
    sheet.flag("together", hints.together);
    sheet.optional("nearest_given", region.nearest, |sheet, nearest| {
        sheet.put("region", nearest.region);
        sheet.put("unwanted_ppm", nearest.unwanted_ppm);
    });
}

fn of_way(sheet: &mut Sheet, way: &GroupWay) {
    let (number, packets, cost_ns) = match way {
        GroupWay::Exact { packets, cost_ns } => (1, packets, cost_ns),
        GroupWay::Copies { packets, cost_ns } => (2, packets, cost_ns),
        GroupWay::Common {
            packets, cost_ns, ..
        } => (3, packets, cost_ns),
        GroupWay::Merged {
            packets, cost_ns, ..
        } => (4, packets, cost_ns),
        other => panic!("{other:?} is compared nowhere"),
    };
    sheet.put("way", number);
    sheet.put("packets", packets);
    sheet.put("cost", cost_ns);
    if let GroupWay::Common {
        groups,
        saved,
        spent,
        ..
    } = way
    {
        sheet.put("groups_count", groups);
        sheet.put("saved", saved);
        sheet.put("spent", spent);
    }
    if let GroupWay::Merged { unwanted_ppm, .. } = way {
        sheet.put("unwanted_ppm", unwanted_ppm);
    }
}
