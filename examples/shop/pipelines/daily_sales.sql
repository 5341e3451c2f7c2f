/*---
name: gold.daily_sales
description: Orders and revenue of a day, by country.
partitions: {daily: ds, start: 2026-01-05, end: 2026-01-15}
tags: [gold]
checks: [{not_null: [country]}, {row_count: {min: 1}}]
---*/
select c.country,
       count(*) as orders,
       sum(o.amount) as revenue,
       count_if(o.is_late) as late
from silver.orders o
join silver.customers c on c.customer_id = o.customer_id
group by c.country
