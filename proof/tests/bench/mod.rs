//! A lease table in the embedded DynamoDB, behind the proxy that counts and breaks.
#![allow(dead_code, reason = "each test uses its part")]

use std::{collections::HashMap, time::Duration};

use aws_config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::{Client, config::Credentials, types::AttributeValue};
use leasehold::{
    Acquire, Connection, DynamoDb, Granted, Holder, Key, Leases, RequestId, Settings, Ttl,
    conformance,
    row::{Item, Row, Stored},
    store::Address,
};
use leasehold_local::Proxy;

pub const TABLE: &str = "leases";

pub fn request(key: &str, holder: &str, id: &str) -> Acquire {
    let ttl = Ttl::new(Duration::from_mins(1)).unwrap();
    Acquire::new(Key::new(key).unwrap(), Holder::new(holder).unwrap(), ttl)
        .request_id(RequestId::new(id).unwrap())
}

pub struct Table {
    pub proxy: Proxy,
    /// Through the proxy, with the library's own timeouts and retries.
    pub client: Client,
    pub server: leasehold_local::DynamoDb,
}

impl Table {
    pub async fn start() -> Self {
        let table = Self::without_table().await;
        leasehold::table::create(&table.client, TABLE)
            .await
            .unwrap();
        table.proxy.reset();
        table
    }

    pub async fn without_table() -> Self {
        Self::on(leasehold_local::DynamoDb::start().await.unwrap()).await
    }

    pub async fn on(server: leasehold_local::DynamoDb) -> Self {
        let proxy = Proxy::start(server.address(), 0).await.unwrap();
        let config = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "test"))
            .endpoint_url(proxy.url())
            .load()
            .await;
        Self {
            client: Connection::client(&config),
            proxy,
            server,
        }
    }

    pub fn store(&self) -> DynamoDb {
        DynamoDb::new(self.client.clone(), TABLE)
    }

    pub fn leases(&self) -> Leases<DynamoDb> {
        Leases::new(self.store(), Settings::default())
    }

    pub async fn put(&self, address: &Address, mut item: Item) {
        item.extend(key(address));
        let put = self.client.put_item().table_name(TABLE);
        put.set_item(Some(item)).send().await.unwrap();
    }

    pub async fn get(&self, address: &Address) -> Option<Item> {
        let get = self.client.get_item().table_name(TABLE);
        let output = get.set_key(Some(key(address))).consistent_read(true);
        output.send().await.unwrap().item
    }

    /// All that has this key, rows and waiters.
    pub async fn items(&self, key: &Key) -> Vec<Item> {
        let query = self.client.query().table_name(TABLE).consistent_read(true);
        let query = query.key_condition_expression("#pk = :pk");
        let query = query.expression_attribute_names("#pk", "pk");
        let pk = AttributeValue::S(key.as_str().to_owned());
        let found = query.expression_attribute_values(":pk", pk).send().await;
        found.unwrap().items.unwrap_or_default()
    }

    pub async fn grant(&self, key: &str, holder: &str, id: &str) -> Granted {
        let acquired = self.leases().acquire(request(key, holder, id)).await;
        acquired.unwrap().granted().unwrap()
    }

    pub async fn row(&self, key: &str) -> Row {
        let address = Address {
            key: Key::new(key).unwrap(),
            permit: 0,
        };
        match Stored::read(self.get(&address).await.as_ref()) {
            Stored::Row(row) => row,
            other => panic!("{other:?}"),
        }
    }

    pub async fn delete(&self, address: &Address) {
        let delete = self.client.delete_item().table_name(TABLE);
        delete.set_key(Some(key(address))).send().await.unwrap();
    }
}

pub fn key(address: &Address) -> HashMap<String, AttributeValue> {
    let sk = format!("LEASE#{:04}", address.permit);
    HashMap::from([
        (
            "pk".to_owned(),
            AttributeValue::S(address.key.as_str().to_owned()),
        ),
        ("sk".to_owned(), AttributeValue::S(sk)),
    ])
}

impl conformance::Bench for Table {
    type Store = DynamoDb;

    fn store(&self) -> DynamoDb {
        self.store()
    }

    async fn put(&self, address: &Address, item: Item) {
        self.put(address, item).await;
    }

    async fn delete(&self, address: &Address) {
        self.delete(address).await;
    }
}
