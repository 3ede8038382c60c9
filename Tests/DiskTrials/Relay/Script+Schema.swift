import Foundation
import Records
import RelayCore
import RelayStore

/// Schema changes of the command line beside a running relay, and the relay's removal of unused assets.
extension Script {
    private static func schema(_ environment: Records.Environment, of facts: Facts) -> [String] {
        (facts["schema \(environment.rawValue)"] ?? "").split(separator: " ").map(String.init)
    }

    /// Adds a field to the development schema.
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

    /// Removes all unused assets, even new ones.
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
