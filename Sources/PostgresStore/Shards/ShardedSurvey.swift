#if Postgres
    import Records
    import RelayCore
    import StoreKit

    /// The survey of a store whose owners are spread over several databases: of those that can be reached.
    struct ShardedSurvey: StoreSurvey {
        /// The surveys, with the number of the shard of each; shard 1 is the first.
        let parts: [(number: Int, survey: PostgresSurvey)]
        /// Returns the shard of an owner.
        let shard: (UserID) throws(PostgresError) -> Int

        private var control: PostgresSurvey {
            get throws(RelayError) {
                guard let part = parts.first else { throw .notCarriedOut }
                return part.survey
            }
        }

        private func part(of owner: UserID) throws(RelayError) -> PostgresSurvey? {
            do throws(PostgresError) {
                let number = try shard(owner)
                return parts.first { $0.number == number }?.survey
            } catch {
                throw error.relayError
            }
        }

        func totals() throws(RelayError) -> StoreTotals {
            var totals = StoreTotals()
            for (number, survey) in parts {
                let part = try survey.totals()
                if number == 1 { totals.users = part.users }
                // Every shard has a row for the public zone; that of shard 1 is the one in use.
                totals.zones += number == 1 ? part.zones : part.zones - 1
                totals.use = totals.use + part.use
                totals.shares += part.shares
                totals.subscriptions += part.subscriptions
                if number == 1 { totals.publicUse = part.publicUse }
            }
            return totals
        }

        func zones(with words: String, before change: UInt64, limit: Int) throws(RelayError) -> [SurveyedZone] {
            var found: [SurveyedZone] = []
            for (number, survey) in parts {
                found += try survey.zones(with: words, before: change, limit: limit).filter {
                    number == 1 || $0.id.owner != Zone.publicOwner
                }
            }
            return Array(found.sorted { $0.lastChange > $1.lastChange }.prefix(limit))
        }

        func zone(_ id: ZoneID) throws(RelayError) -> Zone? { try part(of: id.owner)?.zone(id) }

        func tail(of zone: Zone, limit: Int) throws(RelayError) -> [StoredRecord] {
            try part(of: zone.id.owner)?.tail(of: zone, limit: limit) ?? []
        }

        func publicCounts(upTo bound: Int) throws(RelayError) -> [String: Int] {
            try control.publicCounts(upTo: bound)
        }

        /// The numbers of shares on one shard are those on another, too.
        private static let shardsInNumber: Int64 = 1_024

        func shares(limit: Int, id: Int64?) throws(RelayError) -> [SurveyedShare] {
            var found: [SurveyedShare] = []
            for (number, survey) in parts {
                if let id, id % Self.shardsInNumber != Int64(number) { continue }
                for var share in try survey.shares(limit: limit, id: id.map { $0 / Self.shardsInNumber }) {
                    share.id = share.id * Self.shardsInNumber + Int64(number)
                    found.append(share)
                }
            }
            return Array(found.sorted { $0.id > $1.id }.prefix(limit))
        }

        func subscriptions(limit: Int) throws(RelayError) -> [SurveyedSubscription] {
            try control.subscriptions(limit: limit)
        }

        func indexes(upTo bound: Int) throws(RelayError) -> [SurveyedIndex] {
            struct Key: Hashable {
                var type: String
                var target: String
            }
            var found: [Key: SurveyedIndex] = [:]
            for (_, survey) in parts {
                for index in try survey.indexes(upTo: bound) {
                    let key = Key(type: index.recordType, target: index.target)
                    var sum = found[key] ?? index
                    if let known = found[key] {
                        sum.entries = known.entries + index.entries
                        sum.isComplete = known.isComplete && index.isComplete
                    }
                    found[key] = sum
                }
            }
            return found.values.sorted { ($0.recordType, $0.target) < ($1.recordType, $1.target) }
        }
    }

    extension ShardedStore {
        /// Runs `body` on one committed state of each database; no statement runs for more than a few seconds.
        func survey<Result>(
            _ body: (any StoreSurvey) throws(RelayError) -> Result
        ) throws(RelayError) -> Result {
            var work = QueryWork(tuning: tuning)
            let reading = ShardReading(self, work: work)
            defer { reading.end(&work) }
            var parts: [(Int, PostgresSurvey)] = []
            for shard in shards.all {
                guard let reader = try? reading.postgresReader(shard.number) else { continue }
                reader.transaction.later(
                    "SELECT set_config('statement_timeout', $1, true)",
                    .text("\(QueryTuning().longestRun.wholeMilliseconds)")
                )
                parts.append((shard.number, PostgresSurvey(reader: reader)))
            }
            return try body(
                ShardedSurvey(parts: parts) { (owner) throws(PostgresError) in try self.shard(of: owner) }
            )
        }
    }
#endif
