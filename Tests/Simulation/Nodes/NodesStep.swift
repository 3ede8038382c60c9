import ZoneTesting

/// One step of a run with two relays over one store.
package struct NodesStep: Sendable, CustomStringConvertible {
    enum Action: Sendable {
        /// A client saves a new record in one of its user's zones.
        case save(client: Int, zone: Int)
        /// A client saves a record in the zone that the first user shares.
        case saveShared(client: Int)
        /// A client closes its connection and opens one to a node.
        case move(client: Int, node: Int)
        /// A user's subscription is deleted through one node and created through the other.
        case renewSubscription(user: Int, node: Int)
        /// A record type is added through a node.
        case alterSchema(node: Int)
        /// A client's session is revoked through a node.
        case revoke(client: Int, node: Int)
        /// The connection of the bus between the nodes is cut for a while.
        case cutBus(seconds: Int)
        /// A node is killed, at once or between its next commit and the notice of it, and started later.
        case kill(node: Int, atCommit: Bool, seconds: Int)
    }

    let number: Int
    /// The time before the step, in milliseconds.
    let pause: Int
    let action: Action

    package var description: String { "\(number), \(pause) ms later: \(action)" }

    /// Returns the steps of a seed.
    package static func steps(ofSeed seed: UInt64) -> [NodesStep] {
        var random = SeededRandom(seed: seed ^ 0x57E9_5000_0000).generator
        let count = Int.random(in: 12...36, using: &random)
        return (0..<count).map { number in
            let pause =
                Bool.random(using: &random)
                ? Int.random(in: 5...400, using: &random)
                : Int.random(in: 400...6_000, using: &random)
            let (client, node) = (
                Int.random(in: 0..<NodesSimulation.clientCount, using: &random), Int.random(in: 0...1, using: &random)
            )
            let seconds = Int.random(in: 2...25, using: &random)
            let action: Action =
                switch Int.random(in: 0..<100, using: &random) {
                case ..<46: .save(client: client, zone: Int.random(in: 0...1, using: &random))
                case ..<58: .saveShared(client: client % 4)
                case ..<68: .move(client: client, node: node)
                case ..<77: .renewSubscription(user: client / 2, node: node)
                case ..<83: .alterSchema(node: node)
                case ..<89: .revoke(client: client, node: node)
                case ..<94: .cutBus(seconds: seconds)
                default: .kill(node: node, atCommit: Bool.random(using: &random), seconds: seconds)
                }
            return NodesStep(number: number, pause: pause, action: action)
        }
    }
}
