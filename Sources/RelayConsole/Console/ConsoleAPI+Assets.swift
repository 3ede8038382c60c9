import Foundation
import Records
import RelayCore
import RelayStore

/// Statistics about assets: number, sizes, unused ones; never their content or owners.
extension ConsoleAPI {
    static let assets: [ConsoleRoute] = [
        .get("assets") { try AssetsAnswer($0) },
        .post("assets/collect") { call in
            let home = try call.home()
            guard try call.parts.stores.existingStore(of: home) != nil else { return ["removed": 0] }
            let limit = call.parts.time.now() + (.zero - call.parts.facts.unusedAssetLifetime)
            let removed = try await call.parts.stores.removeUnusedAssets(of: home, before: limit)
            try call.note("assets.collect", "\(removed) deleted", in: home)
            return ["removed": removed]
        },
    ]

    private struct AssetsAnswer: Encodable {
        /// The assets of one size class.
        struct Size: Encodable {
            /// The upper bound in bytes; `nil` for the class of the largest.
            var upTo: Int64?
            var count: Int
            var bytes: Int64
        }

        var count: Int
        var bytes: Int64
        var unused: Int
        var unusedBytes: Int64
        var missing: Int
        var sizes: [Size]
        /// The sizes of the ten largest assets, in descending order.
        var largest: [Int64]

        init(_ call: ConsoleCall) throws {
            let files = try StoreFiles(of: try call.home(), in: call.parts.facts.data)
            let all = files?.assets ?? []
            let unusedOnes = all.filter { !$0.isUsed }
            count = all.count
            bytes = all.reduce(0) { $0 + $1.bytes }
            unused = unusedOnes.count
            unusedBytes = unusedOnes.reduce(0) { $0 + $1.bytes }
            missing = files?.missing.count ?? 0
            var rest = all
            sizes = [10_000, 100_000, 1_000_000, 10_000_000, nil].map { (bound: Int64?) in
                let own = rest.filter { asset in bound.map { asset.bytes <= $0 } ?? true }
                rest.removeAll { asset in bound.map { asset.bytes <= $0 } ?? true }
                return Size(upTo: bound, count: own.count, bytes: own.reduce(0) { $0 + $1.bytes })
            }
            largest = all.map(\.bytes).sorted(by: >).prefix(10).map { $0 }
        }
    }
}
