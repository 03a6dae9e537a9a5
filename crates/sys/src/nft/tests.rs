//! Tests that the kernel accepts the encoding, each in a network namespace of its own.

use super::*;
use crate::netlink::{Cidr, NetworkNamespace, run_in_netns};
use std::net::IpAddr;
use std::time::Duration;

fn in_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let namespace = NetworkNamespace::create().expect("a namespace");
    run_in_netns(&namespace, work).expect("inside the namespace")
}

/// One rule with each expression, and sets and maps of each shape.
fn everything(family: Family, ip: IpAddr) -> Table {
    let mut table = Table::new(family, "everything");
    let rule = || Rule::new(family);
    let triple = [family.address(), Type::Protocol, Type::Port];
    table.base_chain("pre", ChainType::Nat, Hook::Prerouting, -100);
    table.base_chain("post", ChainType::Nat, Hook::Postrouting, 100);
    table.base_chain("input", ChainType::Filter, Hook::Input, 0);
    table.set("addresses", &[family.address()]).add(Key::new().address(ip));
    let goto = Verdict::Goto("service".to_owned());
    table
        .map("services", &triple, &[Type::Verdict])
        .add_verdict(Key::new().address(ip).protocol(6).port(80), goto);
    table
        .map("endpoints", &[Type::Index], &[family.address(), Type::Port])
        .add_value(Key::new().number(0), Key::new().address(ip).port(8080))
        .add_value(Key::new().number(1), Key::new().address(ip).port(8081));
    let affinity = table.set("affinity", &[family.address()]);
    affinity.dynamic_timeout = Some(Duration::from_hours(3));
    affinity.size = Some(65_535);
    let key = [Field::Destination, Field::Protocol, Field::DestinationPort];
    table
        .chain("pre")
        .rule(
            rule().when(Field::Source, Match::NotIn(Cidr { ip, prefix: 16 })).set_mark_bits(0x4000),
        )
        .rule(rule().vmap(&key, "services"));
    table
        .chain("service")
        .rule(rule().when_in(&[Field::Source], "affinity").goto("endpoint"))
        .rule(
            rule()
                .when(Field::Protocol, Match::protocol(6))
                .dnat_map(&[Field::Random(2)], "endpoints"),
        );
    let mut own = Set { key: vec![Type::Index], data: vec![Type::Verdict], ..Set::default() };
    own.add_verdict(Key::new().number(0), Verdict::Goto("service".to_owned()))
        .add_verdict(Key::new().number(1), Verdict::Goto("endpoint".to_owned()));
    table.chain("own").rule(rule().vmap(&[Field::Random(2)], Map::Anonymous(own)));
    table.chain("pre").rule(rule().jump("own"));
    table
        .chain("endpoint")
        .rule(rule().update_set(&[Field::Source], "affinity", None))
        .rule(rule().when(Field::Protocol, Match::protocol(6)).dnat(ip, 8080));
    table
        .chain("post")
        .rule(rule().when_mark(0x4000).flip_mark_bits(0x4000).masquerade())
        .rule(rule().when_status(ct::DNAT).snat(ip).comment("to ourselves"));
    table
        .chain("input")
        .rule(rule().when_state(ct::NEW).when_local(Field::Source).counter().accept())
        .rule(rule().when_not_in(&[Field::Destination], "addresses").save_mark())
        .rule(rule().when_source_is_elsewhere().drop())
        .rule(rule().when(Field::InInterface, Match::interface_prefix("tph")).drop())
        .rule(rule().when(Field::OutInterface, Match::interface("lo")).jump("endpoint-less"))
        .rule(rule().when(Field::SocketUid, Match::Is(0_u32.to_ne_bytes().to_vec())).accept())
        .rule(rule().when(
            Field::DestinationPort,
            Match::Between(80_u16.to_be_bytes().to_vec(), 90_u16.to_be_bytes().to_vec()),
        ));
    table
        .chain("endpoint-less")
        .rule(rule().when(Field::Protocol, Match::protocol(6)).reject_tcp())
        .rule(rule().reject());

    table
}

#[test]
fn the_kernel_takes_every_expression() {
    in_namespace(|| {
        for (family, ip) in [
            (Family::Ip, IpAddr::from([10, 0, 0, 1])),
            (Family::Ip6, "fd00::1".parse().expect("an address")),
        ] {
            let table = everything(family, ip);
            diff(None, &table).commit().expect("written whole");
            diff(None, &table).commit().expect("replaced in one transaction");
            show();
        }
    });
}

#[test]
fn a_difference_reaches_the_kernel_and_leaves_nothing_behind() {
    in_namespace(|| {
        let full = everything(Family::Ip, IpAddr::from([10, 0, 0, 1]));
        diff(None, &full).commit().expect("written");
        let empty = Table::new(Family::Ip, "everything");
        diff(Some(&full), &empty).commit().expect("emptied by differences alone");
        diff(Some(&empty), &full).commit().expect("filled by differences alone");
        Batch::remove_table(Family::Ip, "everything").commit().expect("removed");
        let gone = diff(Some(&full), &empty).commit().expect_err("nothing is left");
        assert!(gone.is_not_found(), "{gone}");
    });
}

#[test]
fn what_somebody_else_changes_is_noticed() {
    let nft = |command: &str| {
        let done = std::process::Command::new("nft").arg(command).status().expect("nft runs");
        assert!(done.success(), "{command}");
    };
    in_namespace(|| {
        for (family, ip) in [
            (Family::Ip, IpAddr::from([10, 0, 0, 1])),
            (Family::Ip6, "fd00::1".parse().expect("an address")),
        ] {
            let (table, name) = (everything(family, ip), family.name());
            for command in [
                format!("flush table {name} everything"),
                format!("delete table {name} everything"),
                format!("flush chain {name} everything service"),
                format!("add rule {name} everything service accept"),
                format!("add chain {name} everything other"),
                format!("flush set {name} everything addresses"),
                format!(
                    "add element {name} everything addresses {{ {} }}",
                    match family {
                        Family::Ip => "10.9.9.9",
                        Family::Ip6 => "fd00::99",
                    }
                ),
                "flush ruleset".to_owned(),
            ] {
                diff(None, &table).commit().expect("written");
                assert!(is_intact(&table).expect("looked at"), "before {command}");
                let before = generation().expect("a number");
                nft(&command);
                assert_ne!(generation().expect("a number"), before, "{command}");
                assert!(!is_intact(&table).expect("looked at"), "{command}");
            }
        }
    });
}

#[test]
fn an_error_names_the_operation_and_undoes_the_others() {
    in_namespace(|| {
        let mut table = Table::new(Family::Ip, "t");
        table.chain("a").rule(Rule::new(Family::Ip).jump("nowhere"));
        let error = diff(None, &table).commit().expect_err("no such chain");
        assert!(error.to_string().starts_with("nftables ip t: add rule to a"), "{error}");
        let mut batch = Batch::new();
        batch.push(Family::Ip, "t", Operation::DeleteTable);
        assert!(batch.commit().expect_err("the table was not made").is_not_found());
    });
}

fn show() {
    if let Ok(output) = std::process::Command::new("nft").args(["list", "ruleset"]).output() {
        println!("{}", String::from_utf8_lossy(&output.stdout));
    }
}
