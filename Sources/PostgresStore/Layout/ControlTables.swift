#if Postgres
    extension PostgresLayout {
        /// Accounts, credentials, operators and settings, which belong to the cluster and not to a container.
        ///
        /// Times are milliseconds since 1970; identifiers are compared byte by byte.
        static let control = """
            -- one row: the key that seals web auth tokens, and a number that grows whenever somebody loses access
            CREATE TABLE relay (
                id bigint PRIMARY KEY CHECK (id = 1),
                token_key bytea NOT NULL,
                revocations bigint NOT NULL DEFAULT 0
            );
            -- what operators have set, as JSON
            CREATE TABLE setting (name text COLLATE "C" PRIMARY KEY, value bytea NOT NULL);

            CREATE TABLE container (name text COLLATE "C" PRIMARY KEY, created bigint NOT NULL, title text COLLATE "C");
            CREATE TABLE api_token (
                hash bytea PRIMARY KEY,
                id text COLLATE "C" NOT NULL UNIQUE,
                container text COLLATE "C" NOT NULL REFERENCES container (name),
                environment text COLLATE "C" NOT NULL,
                name text COLLATE "C" NOT NULL,
                notes text COLLATE "C" NOT NULL,
                callback text COLLATE "C",
                origins text COLLATE "C" NOT NULL,
                created bigint NOT NULL,
                revoked bigint
            );
            CREATE TABLE server_key (
                id text COLLATE "C" PRIMARY KEY,
                container text COLLATE "C" NOT NULL REFERENCES container (name),
                environment text COLLATE "C" NOT NULL,
                name text COLLATE "C" NOT NULL,
                public_key text COLLATE "C" NOT NULL,
                user_name text COLLATE "C" NOT NULL,
                created bigint NOT NULL,
                revoked bigint
            );
            -- tokens with which programs change schemas through the management API
            CREATE TABLE management_token (
                hash bytea PRIMARY KEY,
                id text COLLATE "C" NOT NULL UNIQUE,
                container text COLLATE "C" NOT NULL REFERENCES container (name),
                name text COLLATE "C" NOT NULL,
                created bigint NOT NULL,
                expires bigint,
                revoked bigint,
                used bigint
            );

            CREATE TABLE account (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                -- 0 e-mail address and password, 1 dev, 2 a foreign issuer
                method bigint NOT NULL,
                login text COLLATE "C" NOT NULL,
                salt bytea,
                hash bytea,
                rounds bigint,
                block_size bigint,
                parallelism bigint,
                disabled boolean NOT NULL DEFAULT false,
                created bigint NOT NULL,
                email text COLLATE "C",
                phone text COLLATE "C",
                name_prefix text COLLATE "C",
                given_name text COLLATE "C",
                middle_name text COLLATE "C",
                family_name text COLLATE "C",
                name_suffix text COLLATE "C",
                nickname text COLLATE "C",
                UNIQUE (method, login)
            );
            CREATE INDEX account_by_email ON account (email) WHERE email IS NOT NULL;
            CREATE INDEX account_by_phone ON account (phone) WHERE phone IS NOT NULL;
            CREATE TABLE session (
                id bytea PRIMARY KEY,
                secret_hash bytea NOT NULL,
                account bigint NOT NULL REFERENCES account (id),
                container text COLLATE "C" NOT NULL,
                environment text COLLATE "C" NOT NULL,
                kind bigint NOT NULL,
                created bigint NOT NULL,
                revoked bigint,
                used bigint
            );
            CREATE INDEX session_of_account ON session (account);
            CREATE INDEX session_of_container ON session (container);
            -- the user that an account is in a container
            CREATE TABLE container_user (
                container text COLLATE "C" NOT NULL,
                environment text COLLATE "C" NOT NULL,
                account bigint NOT NULL REFERENCES account (id),
                name text COLLATE "C" NOT NULL,
                discoverable boolean NOT NULL DEFAULT false,
                -- no column is the first one of both keys: a planner without statistics would confuse them
                PRIMARY KEY (account, container, environment),
                UNIQUE (container, environment, name)
            );

            -- the issuers that containers trust; the revision is the number of revocations at the latest change
            CREATE TABLE issuer (
                container text COLLATE "C" NOT NULL REFERENCES container (name),
                name text COLLATE "C" NOT NULL,
                audiences text COLLATE "C" NOT NULL,
                algorithms text COLLATE "C" NOT NULL,
                keys_url text COLLATE "C",
                keys_file text COLLATE "C",
                claims text COLLATE "C" NOT NULL,
                trusts_contacts boolean NOT NULL,
                created bigint NOT NULL,
                revision bigint NOT NULL,
                PRIMARY KEY (container, name)
            );
            -- devices that push services notify
            CREATE TABLE push_device (
                id text COLLATE "C" NOT NULL UNIQUE,
                container text COLLATE "C" NOT NULL,
                environment text COLLATE "C" NOT NULL,
                user_name text COLLATE "C" NOT NULL,
                device text COLLATE "C" NOT NULL,
                session bytea,
                api_token bytea NOT NULL,
                kind text COLLATE "C" NOT NULL,
                address text COLLATE "C" NOT NULL,
                topic text COLLATE "C",
                sandbox boolean NOT NULL,
                key bytea,
                secret bytea,
                registered bigint NOT NULL,
                fault text COLLATE "C",
                PRIMARY KEY (container, environment, user_name, device)
            );

            -- limits that differ from the configuration; NULL: the configured limit
            CREATE TABLE quota (account bigint PRIMARY KEY REFERENCES account (id), private_bytes bigint NOT NULL);
            CREATE TABLE container_quota (
                container text COLLATE "C" NOT NULL,
                environment text COLLATE "C" NOT NULL,
                private_bytes bigint,
                public_records bigint,
                public_assets bigint,
                public_transfer bigint,
                PRIMARY KEY (container, environment)
            );

            -- the operators of the console, and the log of their actions
            CREATE TABLE operator (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                name text COLLATE "C" NOT NULL UNIQUE,
                user_name text COLLATE "C" NOT NULL UNIQUE,
                salt bytea NOT NULL,
                hash bytea NOT NULL,
                rounds bigint NOT NULL,
                block_size bigint NOT NULL,
                parallelism bigint NOT NULL,
                created bigint NOT NULL
            );
            CREATE TABLE operator_link (hash bytea PRIMARY KEY, operator text COLLATE "C", expires bigint NOT NULL);
            CREATE TABLE operator_session (
                hash bytea PRIMARY KEY,
                operator bigint NOT NULL REFERENCES operator (id),
                created bigint NOT NULL,
                used bigint NOT NULL
            );
            CREATE TABLE operator_passkey (
                id bytea PRIMARY KEY,
                operator bigint NOT NULL REFERENCES operator (id),
                name text COLLATE "C" NOT NULL,
                algorithm bigint NOT NULL,
                public_key bytea NOT NULL,
                host text COLLATE "C" NOT NULL,
                sign_count bigint NOT NULL,
                created bigint NOT NULL,
                used bigint
            );
            CREATE INDEX operator_passkey_of_operator ON operator_passkey (operator);
            -- Limits of attempts, and values that are accepted once; see PostgresAttempts. After a crash of the server the
            -- counts begin anew.
            CREATE UNLOGGED TABLE attempt (key bytea PRIMARY KEY, ends bigint NOT NULL);
            CREATE INDEX attempt_by_end ON attempt (ends);
            -- the conditions about which the operators were told
            CREATE TABLE alert_incident (rule text COLLATE "C" PRIMARY KEY, reported bigint NOT NULL, seen bigint NOT NULL);
            CREATE TABLE audit (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                at bigint NOT NULL,
                actor text COLLATE "C" NOT NULL,
                action text COLLATE "C" NOT NULL,
                container text COLLATE "C",
                environment text COLLATE "C",
                subject text COLLATE "C" NOT NULL,
                detail text COLLATE "C" NOT NULL
            );

            """
    }
#endif
