import Foundation
import Records
import RelayCore
import RelayStore

/// What the command line does beside a running relay: schemas; and what the relay does by itself: clearing up.
extension Script {
    private static func schema(_ environment: Records.Environment, of facts: Facts) -> [String] {
        (facts["schema \(environment.rawValue)"] ?? "").split(separator: " ").map(String.init)
    }

    /// Brings a field of that name into development.
    static func importSchema(_ field: String) -> Step {
        Step(
            name: "import schema \(field)",
            apply: { facts in
                let fields = Set(schema(.development, of: facts) + [field]).sorted().joined(separator: " ")
                return facts.merging(["schema development": fields]) { $1 }
            }
        ) { world in
            try world.outcome { _ in
                try world.schemas.change(.development) { old in
                    var new = old
                    new.types["Imported", default: RecordType()].fields[field] = .init(.scalar(.int64))
                    return (new, ())
                }
            }
        }
    }

    static func promote(_ name: String) -> Step {
        Step(
            name: "promote schema \(name)",
            apply: { facts in
                facts["schema development"].map { fields in facts.merging(["schema production": fields]) { $1 } }
            }
        ) { world in
            try world.outcome { _ in
                let development = try world.schemas.schema(of: .development)
                try world.schemas.change(.production) { production in
                    let change = SchemaChange(promoting: development, over: production)
                    return (change.isAllowed ? change.result : nil, ())
                }
            }
        }
    }

    /// Removes what no record uses, however new.
    static func clearAssets() -> Step {
        Step(name: "clear assets", apply: { $0 }) { world in
            do throws(RelayError) {
                _ = try await world.stores.removeUnusedAssets(before: Timestamp(milliseconds: 1 << 52))
                return .done
            } catch {
                return .unknown(code: error.code.rawValue, reason: error.reason)
            }
        }
    }
}
